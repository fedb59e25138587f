# NAME.png of tools/paper.sh: training loss over epochs, a line for each arm of NAME.csv.
#     gnuplot -e "name='fig7'; title='...'" curves.gp
set datafile separator ','
set terminal pngcairo size 800,520 font 'sans,12' noenhanced
set output name.'.png'
set title title
set xlabel 'epoch'
set ylabel 'training loss'
set grid ytics lc rgb '#dddddd'
set key outside right
arms = system("awk -F, 'NR > 1 && !seen[$1]++ { print $1 }' ".name.'.csv')
half(arm) = strstrt(arm, '-half') > 0
plot for [i=1:words(arms)] name.'.csv' using 'epoch': \
    (strcol('arm') eq word(arms, i) ? column('train_loss') : NaN) with linespoints lw 2 ps 0.6 pt 7 \
    dt 1 + half(word(arms, i)) lc (half(word(arms, 1 + words(arms) / 8)) ? (i + 1) / 2 : i) title word(arms, i)
