# cifar10.png: test accuracy over epochs, and accuracy over the bytes kept.  gnuplot -e "runs='dense-1 ...'"
set datafile separator ','
set terminal pngcairo size 1200,460 font 'sans,12'
set output 'cifar10.png'
set multiplot layout 1,2
set grid ytics lc rgb '#dddddd'
set key bottom right
set xlabel 'epoch'
set ylabel 'test top-1 (%)'
set xtics 1
set title 'resnet20 on CIFAR-10, batch 128'
plot for [run in runs] run.'/log.csv' using 'epoch':'top1' with linespoints lw 2 pt 7 ps 0.8 title run
set title 'accuracy and memory after the last epoch'
set xlabel 'saved activations (MiB)'
set logscale x 2
set xtics auto
set offsets graph 0.15, graph 0.15, graph 0.12, graph 0.12
unset key
plot 'table.csv' every ::1 using ($8/1048576):4 with points pt 7 ps 1.4 lc rgb '#1f77b4', \
     '' every ::1 using ($8/1048576):4:(sprintf('%s-%d', strcol(1), $2)) with labels offset 0,1
unset multiplot
