# NAME.png of tools/paper.sh: bars of the second column beside those of the third, the paper's.
#     gnuplot -e "name='table1'; title='...'; ylabel='MiB'; file='table1.csv'" bars.gp
if (!exists('file')) file = name.'.csv'
set datafile separator ','
set terminal pngcairo size 800,480 font 'sans,12' noenhanced
set output name.'.png'
set title title
set ylabel ylabel
set yrange [0:*]
set grid ytics lc rgb '#dddddd'
set style data histograms
set style fill solid 0.9 noborder
set boxwidth 0.9
set key top left
set xtics rotate by -25
set offsets 0, 0, graph 0.15, 0
plot file every ::1 using 2:xtic(1) lc rgb '#1f77b4' title 'clprune', \
     file every ::1 using 3 lc rgb '#bbbbbb' title 'paper'
